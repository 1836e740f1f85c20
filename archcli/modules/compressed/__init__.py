"""Attention whose keys are compressed over tokens: compressors, an indexer of blocks, the mixer."""
