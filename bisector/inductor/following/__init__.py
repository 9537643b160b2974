"""The compiled run followed node by node beside eager: what each node adds, and what it passes on."""
