"""Code for GPUs, generated and compiled to machine code without a GPU. Nothing of it is run."""
