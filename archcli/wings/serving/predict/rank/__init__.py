"""One rank of a plan: the kernels that it runs, where, and how long they take on a device."""
