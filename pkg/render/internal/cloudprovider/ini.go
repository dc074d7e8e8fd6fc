package cloudprovider

import (
	"fmt"
	"strings"
)

// iniQuote escapes the character that ends a quoted value, and the escape itself.
var iniQuote = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func iniq(s string) string { return `"` + iniQuote.Replace(s) + `"` }

// ini is a configuration in the form that the providers' gcfg parsers read.
type ini struct{ strings.Builder }

// section starts one, with an empty line before all but the first.
func (w *ini) section(name string) {
	if w.Len() > 0 {
		w.WriteByte('\n')
	}
	w.WriteString("[" + name + "]\n")
}

// set writes a value unchanged, with padding after the key for readability.
func (w *ini) set(width int, key, value string) {
	fmt.Fprintf(w, "%-*s = %s\n", width, key, value)
}
