"""The default rule: one energy of evidence, halos and borders, minimized by belief propagation."""
