"""What files say beside their samples: EXIF, OME-XML, orientation, units, axes."""
