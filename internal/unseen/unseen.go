// Package unseen knows the characters that a reader can't see: those without width, those
// that only steer how others are shown, and those that look blank. With them two texts
// look the same that aren't.
//
// It doesn't know what is merely alike: other spaces, a letter with an accent beside the same
// letter and a combining accent, an "а" of Cyrillic. All these are text.
package unseen

import "unicode"

// Is says it of one character. Control characters are not among them: a terminal obeys those.
func Is(r rune) bool {
	if r < 0xad { // most of all text
		return false
	}
	return unicode.In(r, steering...) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) || unicode.Is(blank, r)
}

// steering is what Unicode has such characters in. Of the format characters (Cf) the marks
// that Arabic writes before numbers are drawn.
var steering = []*unicode.RangeTable{
	unicode.Cf, // directions, joiners, soft hyphen, tags
	unicode.Zl, // a line ends
	unicode.Zp, // a paragraph ends
	unicode.Other_Default_Ignorable_Code_Point, // fillers, and what is kept free for more
	unicode.Variation_Selector,
	unicode.Noncharacter_Code_Point,
}

// blank are letters and symbols that are drawn as nothing.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // Braille without a dot
	},
	R32: []unicode.Range32{
		{Lo: 0x13441, Hi: 0x13442, Stride: 1}, // the blanks of hieroglyphs
		{Lo: 0x16fe4, Hi: 0x16fe4, Stride: 1}, // the filler of Khitan
		{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}, // a note without a head
	},
}

// Emoji says that r between two others is no more than how an emoji is written: U+FE0E or U+FE0F
// behind a symbol, or between a digit and the frame of a key.
func Emoji(before, r, after rune) bool {
	const keycap = 0x20e3
	switch {
	case r != 0xfe0e && r != 0xfe0f:
		return false
	case before >= '0' && before <= '9' || before == '#' || before == '*':
		return after == keycap // else nothing would show
	}
	return !Is(before) && (unicode.Is(unicode.So, before) || unicode.Is(signs, before))
}

// signs are the emoji that are text as well, and no symbols (So) by their category.
var signs = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x203c, Hi: 0x203c, Stride: 1}, // ‼
		{Lo: 0x2049, Hi: 0x2049, Stride: 1}, // ⁉
		{Lo: 0x2139, Hi: 0x2139, Stride: 1}, // ℹ
		{Lo: 0x2194, Hi: 0x2194, Stride: 1}, // ↔
		{Lo: 0x25fb, Hi: 0x25fe, Stride: 1}, // ◻ to ◾
		{Lo: 0x2934, Hi: 0x2935, Stride: 1}, // ⤴ ⤵
		{Lo: 0x3030, Hi: 0x3030, Stride: 1}, // 〰
	},
}
