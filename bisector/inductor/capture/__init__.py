"""The target is run once: its compiled calls, with graphs, inputs and the settings around them."""
