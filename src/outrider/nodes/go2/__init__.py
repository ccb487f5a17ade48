"""The Unitree Go2: its services, its state, and a simulated one."""
