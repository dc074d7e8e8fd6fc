package docs_test

// act is one block in a scene.
type act struct {
	block string
	// first is done before it, in the same shell: what a reader has done by then, or
	// cannot do here.
	first string
	// status is the exit status; 1 where something is found, as shown.
	status int
	// same has what is printed compared with what the page shows, times and digests aside.
	same bool
	// then is done after it, and has to succeed.
	then string
}

// scene is a story in the order of its blocks.
type scene struct {
	name string
	// cluster: with a control plane, a Git server and machine-controller's kinds.
	cluster bool
	// worker: and with another control plane; kubectl and helm call them seed and worker.
	worker bool
	// helm: with helm, and with no kind of ours in any cluster.
	helm bool
	// registry: with one for images at $REGISTRY.
	registry bool
	acts     []act
}

func scenes() []scene {
	return []scene{
		{name: "a repository on a laptop", acts: []act{
			{block: "docs/init.md: osm-gitops init osps --system ubuntu --profile osp-ubuntu-web --git"},
			{block: "docs/init.md: cd osps", then: "cd .. && rm -rf osps"},
			{block: `docs/pull-requests.md: osm-gitops init osps --system ubuntu --ci github --owners @example/platform \`, then: "find osps -name CODEOWNERS | has CODEOWNERS"},
			{
				block: "docs/pull-requests.md: git -C osps remote add origin https://git.example.com/platform/osps.git",
				first: `git init --quiet --bare --initial-branch=main origin.git; git -C osps config "url.$PWD/origin.git.insteadOf" https://git.example.com/platform/osps.git`,
			},
			{
				block: "docs/pull-requests.md: git switch -c more-inotify", first: `cd osps; export EDITOR="sed -i s/v1.0.0/v1.1.0/"`,
				then: "cd ..; git -C origin.git rev-parse --verify more-inotify",
			},
			{block: "docs/editor.md: $ osm-gitops schema --all -o .schemas", then: "test -s .schemas/repository.schema.json"},
			{block: "docs/air-gapped.md: $ osm-gitops bundle --machine-deployments clusters/prod --cluster cluster.yaml --repo . --path profiles -o mirrors > mirrors.txt", first: "git init -q -b main && git add profiles clusters cluster.yaml && git commit -q -m begin", then: "grep -q ^https mirrors.txt"},
			{block: "docs/air-gapped.md: $ osm-gitops lint --mirrors mirrors.txt profiles", status: 1},
			{block: "docs/completion.md: source <(osm-gitops completion bash)", then: "complete -p osm-gitops"},
			{block: "docs/completion.md: $ osm-gitops __complete lint --severity ''", same: true},
		}},
		{name: "quick start", cluster: true, helm: true, registry: true, acts: quickStart()},
		{name: "a cluster", cluster: true, acts: append(inCluster(), besideOthers()...)},
		{name: "Helm", cluster: true, helm: true, acts: withHelm()},
		{name: "two clusters", cluster: true, worker: true, helm: true, acts: inTwoClusters()},
		{name: "from operating-system-manager", cluster: true, acts: fromReference()},
		{name: "KubeOne", cluster: true, acts: inKubeOne()},
		{name: "KKP", cluster: true, acts: inKKP()},
	}
}

// quickStart goes from a cluster with machine-controller to a pool that follows Git, in a copy of
// the repository. The registry and the Git server of the page are ones of this machine.
func quickStart() []act {
	return []act{
		{
			block: "docs/quickstart.md: make build",
			first: `kubectl apply -f pools/00-namespaces.yaml -f pools/shop-web-eu.yaml; ` +
				`mkdir clone; git -C "$REPOSITORY" ls-files -z --cached --others --exclude-standard | tar -C "$REPOSITORY" --null -T - -c --ignore-failed-read | tar -C clone -x; cd clone`,
			// An image of one file, so that the program is not compiled for two machines: TestImages of test/image does that.
			then: `crane=$(hack/tool crane); tar -cf one.tar README.md; "$crane" append --oci-empty-base -f one.tar -t "$REGISTRY/one:v1"; "$crane" pull --format=oci "$REGISTRY/one:v1" bin/image`,
		},
		{
			block: "docs/quickstart.md: make push IMAGE=registry.example.com/platform/osm-gitops:v1.0.0",
			first: `make() { command make --old-file=image "${@/registry.example.com/$REGISTRY}"; }`,
			then: `"$(hack/tool crane)" manifest "$REGISTRY/platform/osm-gitops:v1.0.0" | has layers; image | has registry.example.com/platform/osm-gitops:v1.0.0; ` +
				`kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration osm-gitops; osm-gitops controller --namespace kube-system`,
		},
		{
			block: "docs/quickstart.md: bin/osm-gitops init osps --system ubuntu --url https://git.example.com/platform/osps.git --git",
			first: `url=$(git -C "$WORLD/osps" remote get-url origin); url=${url%/*}/own-; ` +
				`git() { command git -c "url.$url.insteadOf=https://git.example.com/platform/" "$@"; }; ` +
				`kubectl() { [[ $1 != apply ]] || sed -i "s|https://git.example.com/platform/|$url|" osps/deploy/profilesource.yaml; command kubectl "$@"; }`,
		},
		{block: "docs/quickstart.md: kubectl -n shop annotate machinedeployment web-eu --overwrite k8c.io/operating-system-profile=osp-ubuntu-own", then: "configured shop/web-eu"},
		{block: "docs/quickstart.md: bin/osm-gitops doctor", then: "bin/osm-gitops trace md/shop/web-eu | has osp-ubuntu-own"},
	}
}

// besideOthers puts the definitions of Flux and Argo CD into a cluster, and neither of them.
func besideOthers() []act {
	return []act{
		{block: "docs/demo.md: kubectl create namespace flux-system", first: `rm -r examples; for d in test examples pkg; do ln -s "$REPOSITORY/$d" $d; done`},
		{block: "docs/argocd.md: kubectl apply -f examples/argocd/application.yaml", then: "kubectl -n argocd get application osm-gitops osm-fleet"},
		{
			block: "docs/argocd.md: kubectl -n argocd patch configmap argocd-cm --type merge --patch-file examples/argocd/argocd-cm.yaml", first: "kubectl -n argocd create configmap argocd-cm",
			then: "kubectl -n argocd get configmap argocd-cm -o yaml | has resource.customizations.health.gitops.k8c.io_ProfileSource",
		},
		{block: "docs/flux.md: kubectl apply -f examples/flux/source.yaml -f examples/flux/kustomizations.yaml", then: "kubectl -n flux-system get kustomization osm-gitops osm-profiles osm-pools"},
	}
}

// inCluster goes from an empty cluster to handing it back.
func inCluster() []act {
	return []act{
		{block: "docs/controller.md: kubectl apply --server-side -f deploy/crds -f deploy/cloud-init-settings.yaml -f deploy/rbac.yaml -f deploy/controller-policy.yaml"},
		{
			block: "docs/admission.md: kubectl apply --server-side -f deploy/admission.yaml   # policies",
			then:  "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration osm-gitops", // whose Service leads nowhere here
		},
		{
			block: "docs/profilesource.md: $ kubectl -n kube-system get profilesource platform", same: true,
			first: "kubectl apply -f profilesource.yaml; kubectl -n kube-system wait --for=condition=Ready --timeout=60s profilesource/platform",
		},
		{
			block: "docs/operatingsystemprofile.md: $ kubectl -n kube-system get osp",
		},
		{
			block: "docs/operatingsystemconfig.md: $ kubectl -n kube-system get osc", same: true,
			first: "kubectl apply -f pools/00-namespaces.yaml -f pools/shop-web-eu.yaml -f pools/shop-cache-fra.yaml -f pools/research-batch.yaml; for pool in shop/web-eu shop/cache-fra research/batch; do configured $pool; done",
		},
		{block: "docs/operatingsystemconfig.md: kubectl -n cloud-init-settings wait --timeout=60s secret/web-eu-shop-bootstrap-config \\"},
		{block: "docs/pools.md: $ kubectl -n shop get events --field-selector involvedObject.name=web-eu"},
		{block: "docs/pools.md: $ kubectl -n cloud-init-settings get secret web-eu-shop-bootstrap-config -o jsonpath='{.metadata.annotations.gitops\\.k8c\\.io/commit}'", same: true},
		{block: "docs/pools.md: $ kubectl -n cloud-init-settings get secret web-eu-shop-bootstrap-config -o jsonpath='{.metadata.annotations.gitops\\.k8c\\.io/credentials-expire-at}'"},
		{block: "docs/pools.md: kubectl -n shop annotate machinedeployment web-eu gitops.k8c.io/osp-version=v1.1.0", then: "kubectl -n shop annotate machinedeployment web-eu gitops.k8c.io/osp-version-"},
		{block: "docs/operatingsystemconfig.md: $ kubectl -n kube-system get controllerrevisions -l gitops.k8c.io/pool=shop_web-eu --sort-by .revision \\"},
		{block: "docs/profilesource.md: kubectl -n kube-system annotate profilesource platform --overwrite reconcile.fluxcd.io/requestedAt=\"$(date +%s%N)\""},
		{block: "docs/profilesource.md: $ kubectl -n kube-system get profilesource osm-gitops-defaults -o yaml"},
		{block: "docs/git-credentials.md: kubectl -n kube-system create secret generic platform-git --from-literal=username=reader --from-literal=password=..."},
		{block: "docs/pushes.md: openssl rand -hex 32 > token"},
		{block: "docs/pushes.md: kubectl -n kube-system create secret generic platform-hook --from-file=token --from-literal=apiToken=...", first: "kubectl -n kube-system delete secret platform-hook"},
		{block: "docs/signatures.md: $ cat allowed_signers", first: `echo 'ada@example.com namespaces="git" ssh-ed25519 AAAAC3...' > allowed_signers; echo key > ben.asc`},
		{block: "docs/versions.md: kubectl -n kube-system annotate profilesource platform --overwrite gitops.k8c.io/accept-rewrite=\"$COMMIT\"   # all 40 digits of it", first: "COMMIT=$(git -C osps rev-parse HEAD)"},
		{
			block: "docs/rollouts.md: kubectl -n shop label machinedeployment web-canary gitops.k8c.io/wave=0",
			first: "sed s/web-eu/web-canary/ pools/shop-web-eu.yaml | kubectl apply -f -",
			then:  `kubectl -n kube-system patch profilesource platform --type merge -p '{"spec":{"rollout":{"gate":"Waves"}}}'`,
		},
		{block: "docs/rollouts.md: osm-gitops release osp-ubuntu-example@v1.2.0 --wave 0   # past wave 0; later waves are judged as usual"},
		{block: "docs/rollouts.md: kubectl -n shop annotate machinedeployment web-eu gitops.k8c.io/rollout=Replace"},
		{block: "docs/rollouts.md: kubectl -n shop annotate machinedeployment web-eu gitops.k8c.io/rollout-"},
		{block: "docs/rollback.md: osm-gitops history md/shop/web-eu"},
		{block: "docs/rollback.md: osm-gitops suspend source/platform"},
		{block: "docs/rollback.md: osm-gitops pin md/shop/web-eu v1.1.0", then: "configured shop/web-eu"},
		{block: "docs/rollback.md: git revert --no-edit HEAD", first: "cd osps", then: "cd .."},
		{block: "docs/rollback.md: osm-gitops get rollouts"},
		{block: "docs/rollback.md: osm-gitops release osp-ubuntu-example@v1.1.0"},
		{
			block: "docs/rollback.md: osm-gitops resume source/platform",
			then: `kubectl -n kube-system wait --timeout=60s profilesource/platform --for="jsonpath={.status.revision}=main@sha1:$(git -C osps rev-parse HEAD)"; ` +
				`kubectl -n kube-system wait --timeout=60s profilesource/platform --for='jsonpath={.status.rollouts[?(@.profile=="osp-ubuntu-example")].version}=v1.1.0'; ` +
				`kubectl -n kube-system wait --timeout=60s profilesource/platform --for=condition=RolledOut`,
		},
		{
			block: "docs/rollback.md: osm-gitops unpin md/shop/web-eu",
			then:  `configured shop/web-eu; kubectl -n kube-system patch profilesource platform --type merge -p '{"spec":{"rollout":{"gate":"None"}}}'`,
		},
		{block: "docs/rollback.md: COMMIT=$(git rev-parse HEAD~1)", first: "cd osps", then: "cd .."},
		{block: "docs/rollback.md: kubectl -n shop annotate machinedeployment web-eu gitops.k8c.io/rollout=Replace"},
		{block: "docs/rollback.md: kubectl -n shop annotate machinedeployment web-eu gitops.k8c.io/rollout-"},
		{block: "docs/rollback.md: osm-gitops trace md/shop/web-eu"},
		{block: "docs/metrics.md: kubectl -n monitoring create configmap osm-gitops-dashboard --from-file deploy/monitoring/dashboard.json", first: "kubectl create namespace monitoring"},
		{block: "docs/nodeprovenance.md: $ kubectl get np", first: "joined"},
		{block: "docs/trace.md: osm-gitops trace --dump audit.jsonl.gz"},
		{block: "docs/attestation.md: openssl genpkey -algorithm ed25519 -out key.pem"},
		{block: "docs/attestation.md: osm-gitops trace node/workers-7c9f-x2x4k -o intoto --sign key.pem > workers-7c9f-x2x4k.intoto.jsonl"},
		{block: "docs/attestation.md: jq -r .payload x.intoto.jsonl | base64 -d > statement.json", first: "cp workers-7c9f-x2x4k.intoto.jsonl x.intoto.jsonl"},
		{block: "docs/verify.md: osm-gitops verify node/workers-7c9f-x2x4k"},
		{block: "docs/snapshot.md: osm-gitops snapshot --kubeconfig prod.yaml -o prod.json.gz", first: `cp "$KUBECONFIG" prod.yaml; cp prod.yaml osps; cd osps`, then: "cd .."},
		{block: "docs/snapshot.md: kubectl get configmap osm-gitops-snapshot -n kube-system -o yaml > prod.yaml", first: "cd osps; published", then: "cd .."},
		{block: "docs/import.md: osm-gitops import --to osps --git", first: "mkdir one; cd one", then: "test ! -e osps; cd .." /* the profiles of this cluster are in Git already */},
		{block: "docs/import.md: kubectl get osp,md -A -o yaml | osm-gitops import -f - --to osps --git", first: "mkdir two; cd two", then: "test ! -e osps; cd .."},
		{block: "docs/doctor.md: osm-gitops doctor --pre", first: `cp "$KUBECONFIG" seed.kubeconfig; cp "$KUBECONFIG" worker.kubeconfig`},
		{block: "docs/handback.md: kubectl -n kube-system scale deployment osm-gitops --replicas 0", first: "kubectl -n kube-system create deployment osm-gitops --image osm-gitops; stopped"},
	}
}

// withHelm goes from an empty cluster to an empty one.
func withHelm() []act {
	return []act{
		{
			block: "docs/install.md: helm install osm-gitops deploy/chart/osm-gitops --namespace kube-system \\", first: "ready osm-gitops &",
			then: "helm status osm-gitops --namespace kube-system | has 'STATUS: deployed'",
		},
		{
			block: "docs/install.md: helm upgrade osm-gitops deploy/chart/osm-gitops --namespace kube-system --reset-then-reuse-values \\", first: "kubectl create namespace flux-system; kubectl create namespace argocd",
			then: "kubectl -n flux-system get rolebinding osm-gitops-appliers-read; kubectl -n argocd get rolebinding osm-gitops-appliers-read",
		},
		{block: "docs/upgrade.md: helm upgrade osm-gitops deploy/chart/osm-gitops --namespace kube-system --reset-then-reuse-values --set image.tag=v1.1.0", then: "image | has :v1.1.0"},
		{block: "docs/upgrade.md: helm rollback osm-gitops --namespace kube-system", then: "image | has :v1.0.0"},
		{block: "docs/upgrade.md: kubectl apply --server-side -f deploy/crds", then: "kubectl get crd profilesources.gitops.k8c.io"},
		{
			block: "docs/shards.md: helm get values osm-gitops --namespace kube-system --output yaml > values.yaml",
			then:  "kubectl -n kube-system get deployment osm-gitops-a osm-gitops-b; kubectl -n kube-system get role osm-gitops-a-lease -o yaml | has operating-system-manager-shard-b136ea19",
		},
		{block: "docs/shards.md: kubectl -n shop label machinedeployment web gitops.k8c.io/shard=a", first: "kubectl create namespace shop; sed s/web-eu/web/ pools/shop-web-eu.yaml | kubectl apply -f -"},
		{block: "docs/shards.md: kubectl apply -f examples/shards/leases.yaml", then: "helm uninstall osm-gitops-a osm-gitops-b --namespace kube-system"},
		{block: "docs/upgrade.md: helm uninstall osm-gitops --namespace kube-system", then: "kubectl get crd profilesources.gitops.k8c.io; ! kubectl -n kube-system get serviceaccount osm-gitops"},
		{
			block: "docs/install.md: helm install osm-gitops deploy/chart/osm-gitops --namespace kube-system --take-ownership --set observe=true \\",
			then:  "! kubectl -n kube-system get serviceaccount osm-gitops; kubectl -n kube-system get serviceaccount osm-gitops-dry-run",
		},
		{
			block: "docs/install.md: helm upgrade osm-gitops deploy/chart/osm-gitops --namespace kube-system --reset-then-reuse-values --take-ownership --set observe=false",
			then:  "kubectl -n kube-system get serviceaccount osm-gitops; helm uninstall osm-gitops --namespace kube-system",
		},
		{
			block: "docs/install.md: kubectl apply --server-side -k .",
			first: "mkdir mine osm-gitops; cp -r deploy osm-gitops; cd mine; " +
				"printf 'resources:\\n- ../osm-gitops/deploy\\nimages:\\n- {name: image.invalid/osm-gitops, newName: registry.example.com/platform/osm-gitops, newTag: v1.0.0}\\n' > kustomization.yaml",
			then: "image | has platform/osm-gitops:v1.0.0; cd ..",
		},
		{block: "docs/upgrade.md: kubectl apply --server-side -f deploy/crds -f deploy/rbac.yaml -f deploy/controller-policy.yaml", then: "image | has :v1.1.0"},
		// Read first, as any earlier client would: see Uninstall of test/cluster.
		{block: "docs/upgrade.md: kubectl delete -f deploy/crds", first: "kubectl apply --server-side -f deploy/crds; kubectl get osp,osc,ps,np --all-namespaces", then: "! kubectl get crd profilesources.gitops.k8c.io"},
	}
}

// inTwoClusters installs halves by helm and by kubectl, and runs a controller.
func inTwoClusters() []act {
	return []act{
		{block: "docs/install.md: helm --kube-context worker install osm-gitops deploy/chart/osm-gitops --namespace kube-system --set mode=worker"},
		{
			block: "docs/install.md: kubectl --context seed -n cluster-a create secret generic worker-cluster --from-file=kubeconfig",
			first: `kubectl --context seed create namespace cluster-a; cp "$KUBECONFIG" kubeconfig`,
			then:  "kubectl --context seed -n cluster-a get deployment osm-gitops -o yaml | has 'secretName: worker-cluster'",
		},
		{block: "docs/migration.md: kubectl --context seed apply --server-side -f deploy/crds -f deploy/two-clusters/dry-run-management.yaml"},
		{block: "docs/migration.md: osm-gitops controller --namespace kube-system --dry-run"},
		{
			block: "docs/migration.md: kubectl apply --server-side -f deploy/observe.yaml", first: "kubectl create -f profilesource.yaml",
			then: "kubectl -n kube-system wait --for=condition=Observed --timeout=60s profilesource/platform",
		},
		{block: "docs/migration.md: kubectl -n kube-system get profilesource platform -o jsonpath='{.status.conditions[?(@.type==\"Observed\")].message}'", then: "stopped"},
		{
			block: "docs/controller.md: kubectl --context seed apply --server-side -f deploy/crds -f deploy/two-clusters/management.yaml",
			then: "kubectl --context seed -n kube-system wait --for=create --timeout=60s profilesource/osm-gitops-defaults; " +
				"kubectl --context worker -n kube-system wait --for=create --timeout=60s lease/operating-system-manager-worker-manager; stopped",
		},
		{block: "docs/controller.md: osm-gitops controller --namespace kube-system --dry-run"},
		{block: "docs/upgrade.md: osm-gitops controller --namespace kube-system --dry-run"},
		{block: "docs/upgrade.md: osm-gitops controller --namespace kube-system --dry-run (2)"},
	}
}

// webhooksOfReference begins the block that ends operating-system-manager.
const webhooksOfReference = `docs/migration.md: kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o go-template='{{range .items}}{{$c := .}}{{range .webhooks}}{{with .clientConfig.service}}{{if eq .name "operating-system-manager-webhook"}}{{$c.kind}}/{{$c.metadata.name}}{{"\n"}}{{end}}{{end}}{{end}}{{end}}' | sort -u | xargs -r kubectl delete`

// fromReference goes from a cluster with the objects of operating-system-manager, and a pool, to
// osm-gitops and back.
func fromReference() []act {
	return []act{
		{
			block: "docs/migration.md: kubectl apply --server-side -f deploy/crds -f deploy/dry-run.yaml",
			first: `kubectl create namespace cloud-init-settings; kubectl apply -f pools/00-namespaces.yaml -f pools/shop-web-eu.yaml; kubectl -n kube-system apply -f osps/profiles/osp-ubuntu-example.yaml; ` +
				`for file in deployments webhooks; do kubectl apply -f "$REPOSITORY/test/platforms/kubeone/$file.yaml"; done; mv osps published`,
		},
		{
			block: "docs/migration.md: osm-gitops import --namespace kube-system --to osps --git --url https://git.example.com/platform/osps.git",
			then: `url=$(git -C published remote get-url origin); url=${url%/*}/imported.git; git -C osps config "url.$url.insteadOf" https://git.example.com/platform/osps.git; ` +
				`sed -i "s|https://git.example.com/platform/osps.git|$url|" osps/deploy/profilesource.yaml`,
		},
		{block: "docs/migration.md: git -C osps push https://git.example.com/platform/osps.git main"},
		{
			block: webhooksOfReference,
			then: `configured shop/web-eu; [[ -z $(kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o name) ]]; ` +
				`kubectl -n kube-system get deployments -o jsonpath='{.items[*].spec.replicas}' | has '0 0'`,
		},
		{
			block: "docs/migration.md: kubectl -n kube-system get profilesources,operatingsystemconfigs",
			first: `kubectl -n kube-system wait --for=condition=Ready --timeout=60s profilesource/platform; sed -i 's|/mirrors|/mirrors-of-dry-run|' observer.flags`,
		},
		{
			block: "docs/migration.md: kubectl -n kube-system scale deployment osm-gitops --replicas 0",
			first: "kubectl -n kube-system create deployment osm-gitops --image osm-gitops; stopped",
			then: `kubectl -n kube-system get deployment operating-system-manager operating-system-manager-webhook -o jsonpath='{.items[*].spec.replicas}' | has '1 1'; ` +
				`kubectl -n kube-system get osp osp-ubuntu-example`,
		},
	}
}

// inKubeOne goes from KubeOne's addon to ours and back. The program kubeone does what "kubeone apply" does
// with addons; no webhook answers.
func inKubeOne() []act {
	const deployed = `kubectl -n kube-system get deployment operating-system-manager operating-system-manager-webhook -o jsonpath='{.items[*].spec.template.spec.containers[0].image}'`
	return []act{
		{
			block: "docs/migration.md: mkdir -p addons",
			first: `kubectl apply -f pools/00-namespaces.yaml -f pools/shop-web-eu.yaml
echo '{apiVersion: kubeone.k8c.io/v1beta2, kind: KubeOneCluster}' > kubeone.yaml
kubeone apply --manifest kubeone.yaml; ` + deployed + ` | has kubermatic/operating-system-manager
cat > kubeone.yaml <<-END
	{apiVersion: kubeone.k8c.io/v1beta2, kind: KubeOneCluster, addons: {enable: true, path: ./addons,
	  addons: [{name: operating-system-manager, params: {image: registry.example.com/platform/osm-gitops:v1.0.0}}]}}
END`,
			then: `[[ $(` + deployed + `) == 'registry.example.com/platform/osm-gitops:v1.0.0 registry.example.com/platform/osm-gitops:v1.0.0' ]]; ` +
				`kubectl apply -f profilesource.yaml; osm-gitops controller --namespace kube-system; configured shop/web-eu`,
		},
		{
			block: "docs/migration.md: kubectl -n kube-system scale deployment operating-system-manager --replicas 0", first: "stopped",
			then: deployed + ` | has kubermatic/operating-system-manager; kubectl -n kube-system get osp osp-ubuntu-example; [[ ! -e addons/operating-system-manager ]]`,
		},
	}
}

// inKKP has the user cluster, its seed and the master in one control plane, with kinds of KKP that
// have every field.
func inKKP() []act {
	return []act{
		{
			block: "docs/migration.md: kubectl --kubeconfig user-cluster.yaml apply --server-side -f deploy/kkp/user-cluster.yaml",
			first: `cp "$KUBECONFIG" user-cluster.yaml; cp user-cluster.yaml all.yaml; export KUBECONFIG=$PWD/all.yaml
for name in seed master; do
	kubectl config set-context "$name" --cluster="$(kubectl config view -o jsonpath='{.contexts[0].context.cluster}')" --user="$(kubectl config view -o jsonpath='{.contexts[0].context.user}')"
done
for kind in Cluster/clusters/Cluster KubermaticConfiguration/kubermaticconfigurations/Namespaced; do
	IFS=/ read -r kind plural scope <<<"$kind"
	kubectl create -f - <<-END
	{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: "$plural.kubermatic.k8c.io", annotations: {api-approved.kubernetes.io: unapproved}}, spec: {
	  group: kubermatic.k8c.io, scope: $scope, names: {kind: $kind, plural: $plural, singular: "${kind,,}"},
	  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}
	END
	kubectl wait --for=condition=Established --timeout=60s "crd/$plural.kubermatic.k8c.io"
done
kubectl create namespace kubermatic; kubectl create namespace cluster-abcd1234; kubectl -n cluster-abcd1234 create deployment operating-system-manager --image osm-gitops
kubectl create -f - <<-END
	{apiVersion: v1, kind: List, items: [{apiVersion: kubermatic.k8c.io/v1, kind: Cluster, metadata: {name: abcd1234}},
	  {apiVersion: kubermatic.k8c.io/v1, kind: KubermaticConfiguration, metadata: {name: kubermatic, namespace: kubermatic}, spec: {ingress: {domain: kkp.example.com}}}]}
END`,
			then: "kubectl -n kubermatic get kubermaticconfiguration kubermatic -o yaml | has image.invalid/osm-gitops",
		},
		{
			block: `docs/migration.md: kubectl --context seed patch clusters.kubermatic.k8c.io abcd1234 --type merge -p '{"spec":{"pause":true}}'`,
			first: `export KUBECONFIG=$PWD/all.yaml; kubectl create -f profilesource.yaml`,
			then: `[[ $(kubectl -n kubermatic get kubermaticconfiguration kubermatic -o yaml) != *osm-gitops* ]]; ` +
				`kubectl get clusters.kubermatic.k8c.io abcd1234 -o yaml | has 'pause: false'; kubectl -n cluster-abcd1234 get deployment operating-system-manager -o jsonpath='{.spec.replicas}' | has 0`,
		},
	}
}

// left are blocks that no test executes unchanged, with the reason.
func left() map[string]string {
	const shards = "several controllers, each until it is stopped: TestShards of test/e2e/running runs them"
	const beside = "needs Flux or Argo CD in the cluster: TestBesideFluxAndArgoCD of examples has the API server take the files, and TestProfilesAppliedByOthers of test/e2e/delivery applies deploy/appliers.yaml"
	const reporting = "needs a node that reports its files: TestDailyOperations of test/e2e/operators runs the commands for one"
	return map[string]string{
		"docs/node-drift.md: osm-gitops get nodes --differing":                                                                                                                    reporting,
		"docs/node-drift.md: osm-gitops verify node/workers-7c9f-4kx2p --match":                                                                                                   reporting,
		"docs/node-drift.md: kubectl get np workers-7c9f-4kx2p.5a2d9f34 -o jsonpath='{.spec.machine.namespace}/{.spec.machine.name}'":                                             "needs machine-controller, which creates another machine",
		"docs/flux.md: kubectl apply -f examples/flux/source.yaml -f examples/flux/profilesource.yaml":                                                                            beside,
		"docs/flux.md: $ kubectl apply -f deploy/appliers.yaml":                                                                                                                   beside,
		"docs/recovery.md: kubectl -n kube-system patch profilesource platform --type merge -p '{\"spec\":{\"git\":{\"url\":\"https://git.example.com/new/osps.git\"}}}'":         "TestRepositoryMoved of test/e2e/running moves a repository; that of the page does not exist",
		"docs/recovery.md: kubectl -n kube-system get profilesource platform -o jsonpath='{.status.revision}'":                                                                    "TestRestoredFromBackup of test/e2e/running restores a cluster",
		"docs/shards.md: osm-gitops controller --namespace kube-system --watch-label-selector '!gitops.k8c.io/shard'":                                                             shards,
		"docs/shards.md: osm-gitops controller --namespace profiles":                                                                                                              shards,
		"docs/install.md: make push IMAGE=registry.example.com/platform/osm-gitops:v1.0.0":                                                                                        "that of docs/quickstart.md; TestImages of test/image builds the images, and looks into the layout",
		"docs/install.md: sha256sum --check --ignore-missing checksums.txt":                                                                                                       "needs what the workflow of a release has signed, and Sigstore's servers",
		"docs/audit-log.md: $ tail -1 /var/log/osm-gitops/audit.log | jq":                                                                                                         "its paths are those of an installation; TestVerifyAuditLog of cmd/osm-gitops has the command",
		"docs/bundle.md: $ osm-gitops bundle --machine-deployments pools --cluster cluster.yaml -o mirrors > mirrors.txt":                                                         "downloads all that nodes need from the Internet, some hundred megabytes",
		"docs/doctor.md: $ osm-gitops doctor":                                                                                                                                     "TestDoctor of test/e2e/operators executes it and compares each line",
		"docs/editor.md: $ osm-gitops render --watch --profile profiles/osp-web.yaml --machine-deployment pools/web.yaml --cluster cluster.yaml -o provisioning":                  "runs until it is stopped: script render_watch of cmd/osm-gitops",
		"docs/pools.md: $ kubectl -n cloud-init-settings get secret edge-provider-script-web-shop -o jsonpath='{.data.fetch-bootstrap-script}' | base64 -d | ssh root@machine sh": "runs a script as root of a machine; test/nodescripts runs it in a namespace of its own",
		"docs/git-credentials.md: ssh-keygen -t ed25519 -N '' -C osm-gitops -f identity":                                                                                          "asks the ssh server of git.example.com for its key; TestCredentials of test/e2e/delivery does it with one of its own",
		"docs/signatures.md: git checkout \"$COMMIT^\" -- profiles/prod/old.yaml && git commit -S -m \"vouch for the removal, 1 of 2\"":                                           "needs keys of two people: TestPathPolicyJudgesTheLastChangeOnly of pkg/source makes these commits",
		"docs/pull-requests.md: kubectl apply -f deploy/profilesource.yaml":                                                                                                       "the repository has to be pushed somewhere first; the cluster scene applies and awaits a ProfileSource",
		"docs/rebase-overlay.md: $ osm-gitops rebase-overlay profiles/osp-ubuntu-motd.yaml --write":                                                                               "an excerpt; script overlay of cmd/osm-gitops has the whole",
		"docs/render.md: $ osm-gitops render --watch --profile profiles/osp-web.yaml --machine-deployment md.yaml --cluster cluster.yaml -o provisioning":                         "runs until it is stopped: script render_watch of cmd/osm-gitops",
		"docs/rollouts.md: $ osm-gitops get windows":                                                                                                                              "the state depends on the time of day: TestDailyOperations of test/e2e/operators runs the command, TestMachinesAreReplacedInWindows of pkg/reconcile/rollout moves the clock",
		"docs/rollouts.md: $ kubectl -n kube-system get profilesource platform -o yaml":                                                                                           "an excerpt of a rollout that is held for half an hour; TestRollout of test/e2e/running holds one",
		"docs/trace.md: ln -s \"$(command -v osm-gitops)\" /usr/local/bin/kubectl-osm_gitops":                                                                                     "changes the machine that it runs on; script plugin of cmd/osm-gitops has the names",
		"docs/ui.md: $ osm-gitops ui":                               "serves until it is stopped, at a port that must be free; test/ui looks at it in a browser",
		"docs/ui.md: kubectl apply --server-side -f deploy/ui.yaml": "needs a name and a certificate by which the page is reached; pkg/inspect/ui and test/ui ask with tokens",
		"docs/ui.md: curl -s -H \"Accept: application/json\" \"http://127.0.0.1:8087/?state=Behind\" | jq -r '.items[] | [.namespace, .name, .nodes.behind] | @tsv'": "needs osm-gitops ui at its own port; pkg/inspect/ui asks for each state",

		"README.md: make build": "the commands of docs/quickstart.md, as TestQuickStart compares",

		// Those of a seed of KKP, whose kinds TestSeed of test/e2e/running installs with the same manifests.
		"docs/kkp-seed.md: kubectl apply --server-side -f deploy/crds/gitops.k8c.io_profilesources.yaml -f deploy/kkp/seed.yaml": "TestSeed of test/e2e/running applies both files",
		"docs/kkp-seed.md: kubectl -n kubermatic create role osps-git --verb=get --resource=secrets --resource-name=osps-git":    "grants the right to a Secret of the user's",
		"docs/kkp-seed.md: kubectl -n kubermatic get profilesources":                                                             "needs the kind of KKP: TestSeed of test/e2e/running reads the same fields",

		// The demo's.
		"docs/demo.md: osm-gitops demo: from a commit to the user-data of a node, on a real API server": "what make demo prints: test/demo executes it and compares",
		"docs/demo.md: make demo KEEP=1": "runs until it is stopped: TestKeep of test/demo",
		"docs/demo.md: export KUBECONFIG=/tmp/osm-gitops-demo-123456789/cluster/pki/admin.kubeconfig": "TestKeep of test/demo starts what it needs, test/chart gives the same values to the chart, and TestDoctor of test/e2e/operators finds the same",
	}
}
