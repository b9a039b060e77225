"""What several hosts are to each other: one lock, clocks that agree, names, open ports, whole packets, RDMA."""
