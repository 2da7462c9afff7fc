"""Whole data sets fused and scored, next to other methods' results and published figures.

``datasets`` and ``methods`` say what is compared, ``inspection`` checks it before any work, ``runner`` fuses and scores, ``record``
lets a run go on where the last one ended, and ``report``, ``html_report`` and ``ablation`` write the results down.
"""
