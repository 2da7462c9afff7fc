"""Edges of the decision map, drawn where the scene has them."""
