package peek

// cursor reads a message of TLS from its front. Once something is missing, ok stays false.
type cursor struct {
	b  []byte
	ok bool
}

// take is the next n bytes.
func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.b) {
		c.ok = false
		return nil
	}
	taken := c.b[:n:n]
	c.b = c.b[n:]
	return taken
}

// number is the next n bytes as one.
func (c *cursor) number(n int) (v int) {
	for _, d := range c.take(n) {
		v = v<<8 | int(d)
	}
	return v
}

// vector is what follows behind its length of n bytes.
func (c *cursor) vector(n int) cursor {
	b := c.take(c.number(n))
	return cursor{b, c.ok}
}

// done says whether everything was there, and nothing is left.
func (c *cursor) done() bool { return c.ok && len(c.b) == 0 }
