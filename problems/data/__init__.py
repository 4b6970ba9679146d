"""What data of instances consist of: real data sets, and kernels with their dense matrices."""
