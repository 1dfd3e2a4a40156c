"""The four parts of AutoAttack: `apgd` (twice), `fab` and `square`."""
