"""What hosts without internet need, collected on the controller: the wheelhouse of Mooncake."""
