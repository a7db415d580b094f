"""The claims of Sections 4 and 5 of the paper as a program: monitors that watch runs on exact testbeds and count."""
