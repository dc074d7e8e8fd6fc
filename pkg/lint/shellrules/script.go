package shellrules

import (
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// script is a parsed script with what every rule asks about it.
type script struct {
	*shell.Commands
	bash    bool // bash, and not sh
	command bool // one command of a cloud-init module, no script of its own
	shebang string
	secrets map[string]bool // variables that hold a credential, see credentialVariables
	asked   []*request      // nil until somebody wants the requests
	done    <-chan struct{} // closed when nobody waits for the findings any more
}

// stopped reports whether nobody waits for the findings any more.
func (s *script) stopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// parse reads a script. The error is that of shell.Parse.
func parse(content, interpreter string, command bool) (*script, error) {
	file, err := shell.Parse(content)
	if err != nil {
		return nil, err
	}
	s := &script{Commands: shell.CommandsOf(file), bash: interpreter == "bash", command: command, secrets: credentialVariables(file)}
	if strings.HasPrefix(content, "#!") {
		s.shebang, _, _ = strings.Cut(content, "\n")
	}
	return s, nil
}
