"""Counts words: something to test."""


def count(text):
    words = {}
    for word in text.lower().split():
        words[word] = words.get(word, 0) + 1
    return words
