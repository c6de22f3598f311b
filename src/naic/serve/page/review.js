// The review of captions.
