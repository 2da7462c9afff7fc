"""Heights as other programs take them: meshes for 3-D programs, profiles for tables."""
