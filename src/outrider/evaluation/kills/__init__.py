"""Processes killed, frozen and ended while the robot drives, with the real parts."""
