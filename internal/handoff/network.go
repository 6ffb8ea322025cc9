package handoff

// Network is what is made in the run's own network namespace, so that the outside can
// be what is reached from there. Nothing of it is lo alone.
type Network struct {
	Requests []Netlink // in this order
	Sockets  []Socket  // made after these, and handed out
	// Ping is the group whose members may send echo requests, if Pings.
	Pings bool
	Ping  uint32
	// Dials: a socket is made and handed out whenever the outside asks for one.
	Dials bool
}

// Netlink is messages to one of the kernel's netlink families, sent at once.
type Netlink struct {
	Name     string // for errors
	Protocol uint16
	Messages string
	Acks     uint16 // how many are acknowledged
	Role     Role
}

// Role is what something is needed for. Where the kernel can't have that, it is left
// out, and the child says so.
type Role uint8

const (
	// RoleBase is needed in any case.
	RoleBase Role = iota
	// RoleIPv6 is of that family.
	RoleIPv6
	// RoleRedirect sends what is meant for others to the sockets of this role.
	RoleRedirect
	// RoleRedirectIPv6 is both.
	RoleRedirectIPv6
	// RoleNamed is made where there is no redirection, and only there.
	RoleNamed
	// RoleNamedIPv6 likewise, and is of that family.
	RoleNamedIPv6
)

// Socket is one that is made inside, bound, and served outside.
type Socket struct {
	Family, Type, Protocol uint16
	Options                []SocketOption
	Address                string // of 4 or 16 bytes; "": it isn't bound
	Port                   uint16
	Listen                 bool
	Role                   Role
	Use                    Use
}

// Use is what the outside does with a socket.
type Use uint8

const (
	// UseConnect is for connections and datagrams to anybody: of type SOCK_RAW, to
	// send answers in their names.
	UseConnect Use = iota + 1
	// UseResolve is for questions to resolvers.
	UseResolve
	// UseObserve sees what nothing serves, so that it can be told.
	UseObserve
	// UseLocalhost leads to the caller's own port of that number.
	UseLocalhost
)

// SocketOption is one setsockopt of an int.
type SocketOption struct{ Level, Name, Value int32 }

func (n *Network) code(c *codec) {
	list(c, &n.Requests, func(r *Netlink) {
		c.str(&r.Name)
		num(c, &r.Protocol)
		c.str(&r.Messages)
		num(c, &r.Acks)
		num(c, &r.Role)
	})
	list(c, &n.Sockets, func(s *Socket) {
		num(c, &s.Family)
		num(c, &s.Type)
		num(c, &s.Protocol)
		list(c, &s.Options, func(o *SocketOption) {
			num(c, &o.Level)
			num(c, &o.Name)
			num(c, &o.Value)
		})
		c.str(&s.Address)
		num(c, &s.Port)
		c.bool(&s.Listen)
		num(c, &s.Role)
		num(c, &s.Use)
	})
	c.bool(&n.Pings)
	num(c, &n.Ping)
	c.bool(&n.Dials)
}

// Made are the sockets that there are where so much had to be left out.
func (n *Network) Made(f Fallbacks) (made []*Socket) {
	for i := range n.Sockets {
		if s := &n.Sockets[i]; s.Role.Wanted(f) {
			made = append(made, s)
		}
	}
	return made
}

// Wanted says whether what has this role is made where so much is left out.
func (r Role) Wanted(f Fallbacks) bool {
	switch r {
	case RoleIPv6:
		return !f.NoIPv6
	case RoleRedirect:
		return !f.NoRedirect
	case RoleRedirectIPv6:
		return !f.NoRedirect && !f.NoIPv6
	case RoleNamed:
		return f.NoRedirect
	case RoleNamedIPv6:
		return f.NoRedirect && !f.NoIPv6
	}
	return true
}

// Without notes that what this role stands for can't be had; false: there is no way without.
func (r Role) Without(f *Fallbacks) bool {
	switch r {
	case RoleIPv6, RoleRedirectIPv6:
		f.NoIPv6 = true
	case RoleRedirect:
		f.NoRedirect = true
	default:
		return false
	}
	return true
}
