package shellrules

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
)

func TestDownloadFix(t *testing.T) {
	if http, other := downloadFix(lint.RuleHTTPDownload), downloadFix(lint.RuleUncheckedDownload); !strings.Contains(http, "https") || http == other {
		t.Errorf("to do is %q, and %q", http, other)
	}
}
