"""What the small models learn from: families of questions and answers, training and held-out rows kept apart."""
