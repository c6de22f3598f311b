"""What the server speaks: one module for each kind of client. `service.py` tells what is in one."""
