package shellrules

import (
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules/internal/credential"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules/internal/request"
)

// script is a parsed script with the values that rules share.
type script struct {
	*shell.Commands
	bash           bool // bash, and not sh
	command        bool // a command of a cloud-init module, which is not a separate script
	shebang        string
	secrets        map[string]bool    // variables that contain a credential, see credential.Variables
	cachedRequests []*request.Request // nil until the first use
	done           <-chan struct{}    // closed when the findings are no longer needed
}

// isStopped reports whether the findings are no longer needed.
func (s *script) isStopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// parseScript parses a script. The error is that of shell.Parse.
func parseScript(content, interpreter string, command bool) (*script, error) {
	file, err := shell.Parse(content)
	if err != nil {
		return nil, err
	}
	s := &script{Commands: shell.CommandsOf(file), bash: interpreter == "bash", command: command, secrets: credential.Variables(file)}
	if strings.HasPrefix(content, "#!") {
		s.shebang, _, _ = strings.Cut(content, "\n")
	}
	return s, nil
}

// requests returns the calls of curl and wget with a URL.
func (s *script) requests() []*request.Request {
	if s.cachedRequests == nil {
		s.cachedRequests = request.FindAll(s.Commands)
	}
	return s.cachedRequests
}
