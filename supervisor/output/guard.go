package output

// Guard is told about writes to a place that others draw on too. Between Begin
// and End nobody else writes there.
type Guard interface {
	Begin()
	End(written []byte)
}
