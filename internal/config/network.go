package config

// Change is a network of which the options that are said are others, and the rest is as it was. A list is what is said of it,
// and does not add to what it was.
func (n *Network) Change(said []Setting) (*Network, error) {
	r := &Resolved{Policy: Policy{Network: *n}}
	for _, s := range said {
		o := LookupOption(s.Option)
		if o == nil || o.Group != GroupNetwork {
			return nil, &UsageError{Msg: "--" + s.Option + " is no option of the network", Hint: "the others are decided when a sandbox is opened"}
		}
		if o.IsList() {
			o.setList(r, nil)
		}
	}
	list, err := fromFlags(said, place{})
	if err != nil {
		return nil, err
	}
	if err := r.applyAll(list); err != nil {
		return nil, err
	}
	return &r.Policy.Network, nil
}

// Settings are what would have to be said for all of it, in the order of help: of a list that is empty, nothing.
func (n *Network) Settings() (all []Setting) {
	r := &Resolved{Policy: Policy{Network: *n}}
	for i := range options {
		if o := &options[i]; o.Group == GroupNetwork {
			all = append(all, Setting{Option: o.Name, Values: o.words(r)})
		}
	}
	return all
}
