package nodescripts_test

import (
	"slices"
	"strings"
	"sync"

	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// foretelling has what `osm-gitops bundle` lists, by what it was rendered from.
var foretelling sync.Map

// foretold holds what the scripts have really asked for to what bundle says that they
// will: every file that a server has seen a request for, and every package.
func (r *rehearsal) foretold() {
	r.t.Helper()
	if r.scenario.weaken != [2]string{} {
		return // no profile of ours, so bundle will not see it
	}
	key := r.scenario.profile + r.input.InputDigest()
	list, ok := foretelling.Load(key)
	if !ok {
		found, err := downloads.FindWithPlaceholders(render.NewEngine(), r.input)
		if err != nil {
			r.t.Fatal(err)
		}
		list, _ = foretelling.LoadOrStore(key, found)
	}
	named := map[string]bool{}
	for _, i := range list.(downloads.List).Items {
		if i.Kind == downloads.KindURL {
			named[i.Name] = true
		}
	}
	requests := 0
	for _, url := range r.cloud.seen() {
		host, _, _ := strings.Cut(url, "/")
		if host == apiHost || host == assetsHost { // where GitHub sends them on to
			continue
		}
		requests++
		if !named["https://"+url] {
			r.once("bundle does not list https://%s, which the node has asked for", url)
		}
	}
	if requests < 5 { // the checksums of five files at least
		r.t.Errorf("the node has made %d requests only", requests)
	}
	r.foretoldPackages(list.(downloads.List))
}

// foretoldPackages does the same for the arguments of package managers.
func (r *rehearsal) foretoldPackages(list downloads.List) {
	r.t.Helper()
	var named []string
	for _, i := range list.Items {
		if i.Kind == downloads.KindPackage {
			named = append(named, i.Name, i.Name+"="+i.Version, i.Name+"-"+i.Version)
		}
	}
	for _, c := range r.calls {
		manager := c.Argv[0][strings.LastIndex(c.Argv[0], "/")+1:]
		at := slices.Index(c.Argv, "install")
		if manager != "apt-get" && manager != "yum" || at < 0 {
			continue
		}
		for _, arg := range c.Argv[at+1:] {
			if !strings.HasPrefix(arg, "-") && !slices.Contains(named, arg) {
				r.once("bundle does not list the package %s, which the node has installed", arg)
			}
		}
	}
}
