"""Whole data sets fused and scored, next to other methods' results and published figures.

``datasets`` and ``methods`` describe what is compared, ``record`` checks it before any work and lets a run go on where the last one ended,
``runner`` fuses and scores, ``baselines`` are published methods written anew, and ``report``, ``html`` and ``ablation`` write the results.
"""
