"""What several tests share: tables in words, Spark sessions, answers of pylance itself."""
