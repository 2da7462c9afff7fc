"""The method of the paper: decomposition, focus measures, base-detail fusion and structural refinement of quaternion images."""
