//! What a stream or a card does wrong is found.
