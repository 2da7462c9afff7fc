"""Files that the programs of microscopes write: Zeiss CZI, Nikon ND2, Leica LIF, each through the library made for it."""
