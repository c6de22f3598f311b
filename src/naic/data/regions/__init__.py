"""Features that a detector made already, in the formats in which they are on people's disks."""
