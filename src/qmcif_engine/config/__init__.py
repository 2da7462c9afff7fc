"""Every setting of the method with its default, bounds and help text, and the presets."""
