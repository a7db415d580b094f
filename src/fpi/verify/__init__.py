"""The claims of the paper's Section 4 as a program: monitors that watch runs on exact testbeds and count violations."""
