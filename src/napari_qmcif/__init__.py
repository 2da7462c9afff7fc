"""The QMCIF engine in napari: layers in, layers out, no arithmetic on pixels."""
