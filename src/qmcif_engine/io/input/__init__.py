"""Images and stacks read lazily, wherever they come from."""
