package session

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
)

// Ref names an object of an argument.
type Ref struct {
	IsPool          bool // a MachineDeployment, otherwise a ProfileSource
	Namespace, Name string
}

func (r Ref) String() string {
	if r.IsPool {
		return "MachineDeployment " + r.Namespace + "/" + r.Name
	}
	return "ProfileSource " + r.Namespace + "/" + r.Name
}

// ParseRef reads KIND/NAME or KIND/NAMESPACE/NAME. The namespace can be empty.
func ParseRef(cmd *cobra.Command, text string, pools, sources bool) (Ref, error) {
	kind, rest, _ := strings.Cut(text, "/")
	r := Ref{IsPool: PoolKind.IsNamed(kind)}
	if (!pools || !r.IsPool) && (!sources || !SourceKind.IsNamed(kind)) {
		return r, cli.Misusef(cli.UsageOf(cmd), "%q is not an argument of %s", text, cmd.Name())
	}
	r.Name = rest
	if namespace, name, ok := strings.Cut(rest, "/"); ok {
		r.Namespace, r.Name = namespace, name
		// An empty variable in a script must not select the default namespace: reject md//web.
		if namespace == "" {
			r.Name = ""
		}
	}
	if flag, _ := cmd.Flags().GetString("namespace"); flag != "" && r.Namespace != "" && r.Namespace != flag {
		return r, cli.Misusef(cli.UsageOf(cmd), "--namespace is %q, but %q names another namespace", flag, text)
	}
	if r.Name == "" || strings.Contains(r.Name, "/") {
		return r, cli.Misusef(cli.UsageOf(cmd), "%q is not KIND/NAME or KIND/NAMESPACE/NAME", text)
	}
	return r, nil
}
