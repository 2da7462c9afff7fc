"""Images, maps and stacks written completely or not at all, in any format."""
