"""Speed, memory and accuracy, measured on the machine at hand: `make bench`."""
