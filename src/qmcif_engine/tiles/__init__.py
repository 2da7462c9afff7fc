"""Tiles: their plan, the stages that one of them runs through, and the task that a worker gets."""
