package confine

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// ProfileTOML shows a profile that ships in full, as TOML that can be pasted into
// a file: it extends nothing, and gives the same policy there.
func ProfileTOML(name string) (string, error) {
	p, err := Profile(name)
	if err != nil {
		return "", err
	}
	b := builtinProfile(name)
	var why []line
	for _, l := range b.lines() {
		if !LookupOption(l.option).IsList() { // the later one holds
			why = slices.DeleteFunc(why, func(old line) bool { return old.option == l.option })
		}
		why = append(why, l)
	}
	return "# " + name + ": " + b.about + "\n" + p.toml(name, why), nil
}

// ShowProfile is ProfileTOML for the profiles of files too.
func ShowProfile(src Sources, name string) (string, error) {
	r, err := gather(src)
	if err != nil {
		return "", err
	}
	if name == wordNone {
		return "", r.profiles.unknown(name)
	}
	said, err := r.profiles.chain(name, "")
	if err != nil {
		return "", err
	}
	onlyBuiltIn := builtinProfile(name) != nil
	for _, s := range said {
		if err := r.out.apply(s); err != nil {
			return "", err
		}
		onlyBuiltIn = onlyBuiltIn && s.base == place{}
	}
	if onlyBuiltIn {
		return ProfileTOML(name)
	}
	return r.out.Policy.TOML(name), nil
}

// TOML is the policy as a profile of this name that extends nothing.
func (p *Policy) TOML(name string) string { return p.toml(name, nil) }

func (p *Policy) toml(name string, why []line) string {
	r := &Resolved{Policy: *p}
	head := "sandbox.profiles." + tomlKey(name)
	var b strings.Builder
	b.WriteString("[" + head + "]\nextends = \"none\"\n")
	for _, table := range []string{"", "network", "filesystem", "env"} {
		if table != "" {
			b.WriteString("\n[" + head + "." + table + "]\n")
		}
		for i := range options {
			o := &options[i]
			parent, key := "", o.Key
			if dot := strings.LastIndexByte(key, '.'); dot >= 0 {
				parent, key = key[:dot], key[dot+1:]
			}
			if key == "" || o.Run || parent != table {
				continue
			}
			own := slices.DeleteFunc(slices.Clone(why), func(l line) bool { return l.option != o.Name })
			if value := o.toml(r, own); value != "" {
				b.WriteString(key + " = " + value + "\n")
			}
		}
	}
	return b.String()
}

// toml is the option's value, or "" when it needs no saying, with the reasons for it.
func (o *Option) toml(r *Resolved, why []line) string {
	words := o.words(r)
	if o.Kind == KindList {
		if o.Name == "env-set" {
			return tomlTable(words)
		}
		return tomlList(words, why, o.Name == "allow-port")
	}
	if len(words) == 0 {
		return ""
	}
	value := tomlString(words[0])
	if o.Kind == KindBool || words[0] != wordNone && (o.Kind == KindCount || o.Kind == KindPercent) {
		value = strings.TrimSuffix(words[0], "%")
	}
	if len(why) > 0 && why[0].why != "" {
		value += " # " + why[0].why
	}
	return value
}

func tomlTable(words []string) string {
	var parts []string
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		parts = append(parts, tomlKey(k)+" = "+tomlString(v))
	}
	if parts == nil {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

// tomlList is a list, with a line for each reason.
func tomlList(words []string, why []line, numbers bool) string {
	join := func(words []string) string {
		words = slices.Clone(words)
		for i := range words {
			if !numbers {
				words[i] = tomlString(words[i])
			}
		}
		return strings.Join(words, ", ")
	}
	if len(why) == 0 {
		return "[" + join(words) + "]"
	}
	var b strings.Builder
	b.WriteString("[\n")
	for _, l := range why {
		if l.why != "" {
			b.WriteString("    # " + l.why + "\n")
		}
		b.WriteString("    " + join(l.words) + ",\n")
	}
	b.WriteString("]")
	return b.String()
}

func tomlKey(k string) string {
	if isProfileName(k) {
		return k
	}
	return tomlString(k)
}

// tomlString is a basic string. TOML has no way to write bytes that are not
// UTF-8: those become U+FFFD.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == utf8.RuneError:
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			const hex = "0123456789ABCDEF"
			b.WriteString(`\u00` + hex[r>>4:r>>4+1] + hex[r&15:r&15+1])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
