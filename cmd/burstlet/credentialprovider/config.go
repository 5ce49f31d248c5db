package credentialprovider

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	configv1 "k8s.io/kubelet/config/v1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/syncloop/images"
)

const configKind = "CredentialProviderConfig"

// Read reads a CredentialProviderConfig, or of a directory all its .json, .yaml and .yml
// files, whose plugins are in binDir. It refuses what a kubelet refuses, and plugins of an
// older version. The client asks with the node's rights for ServiceAccounts and their tokens.
func Read(path, binDir string, client typedcorev1.ServiceAccountsGetter) (*Plugins, error) {
	all, err := providers(path)
	if err != nil {
		return nil, err
	}
	p, accounts := &Plugins{}, newAccounts(client)
	for _, provider := range all {
		bin, err := exec.LookPath(filepath.Join(binDir, provider.Name))
		if err != nil {
			return nil, fmt.Errorf("find the plugin of credential provider %s: %w", provider.Name, err)
		}
		p.plugins = append(p.plugins, newPlugin(bin, provider, accounts))
	}
	return p, nil
}

// Audiences are those of the tokens that the plugins of a configuration are given, sorted. It
// reads as Read does, and looks for no plugin.
func Audiences(path string) ([]string, error) {
	all, err := providers(path)
	if err != nil {
		return nil, err
	}
	audiences := sets.New[string]()
	for _, provider := range all {
		if a := provider.TokenAttributes; a != nil {
			audiences.Insert(a.ServiceAccountTokenAudience)
		}
	}
	return sets.List(audiences), nil
}

// providers are those of a configuration, judged.
func providers(path string) ([]configv1.CredentialProvider, error) {
	files, err := configFiles(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of credential providers: %w", err)
	}
	var all []configv1.CredentialProvider
	for _, file := range files {
		some, err := decode(file)
		if err != nil {
			return nil, fmt.Errorf("read the configuration of credential providers %s: %w", file, err)
		}
		all = append(all, some...)
	}
	if errs := validate(all); len(errs) > 0 {
		return nil, fmt.Errorf("read the configuration of credential providers %s: %w", path, errs.ToAggregate())
	}
	return all, nil
}

// configFiles are the files to read, in the order of their names.
func configFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(entry.Name())) && !entry.IsDir() {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no .json, .yaml or .yml file is in directory %s", path)
	}
	return files, nil
}

func decode(file string) ([]configv1.CredentialProvider, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config configv1.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, err
	}
	if config.APIVersion != configv1.SchemeGroupVersion.String() || config.Kind != configKind {
		return nil, fmt.Errorf("it is a %q of %q: write kind: %s, apiVersion: %s",
			config.Kind, config.APIVersion, configKind, configv1.SchemeGroupVersion)
	}
	return config.Providers, nil
}

func validate(all []configv1.CredentialProvider) field.ErrorList {
	at := field.NewPath("providers")
	if len(all) == 0 {
		return field.ErrorList{field.Required(at, "at least 1 provider is required")}
	}
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range all {
		p, at := &all[i], at.Index(i)
		switch {
		case p.Name == "", p.Name == ".", p.Name == "..", strings.ContainsAny(p.Name, "/ "):
			errs = append(
				errs,
				field.Invalid(
					at.Child("name"), p.Name, "must be the name of a file in the directory of plugins, without '/' and spaces",
				),
			)
		case names.Has(p.Name):
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		names.Insert(p.Name)
		if want := credentialproviderv1.SchemeGroupVersion.String(); p.APIVersion != want {
			errs = append(errs, field.NotSupported(at.Child("apiVersion"), p.APIVersion, []string{want}))
		}
		if len(p.MatchImages) == 0 {
			errs = append(errs, field.Required(at.Child("matchImages"), "at least 1 item is required"))
		}
		for j, pattern := range p.MatchImages {
			if err := images.CheckPattern(pattern); err != nil {
				errs = append(errs, field.Invalid(at.Child("matchImages").Index(j), pattern, err.Error()))
			}
		}
		switch d := p.DefaultCacheDuration; {
		case d == nil:
			errs = append(errs, field.Required(at.Child("defaultCacheDuration"), ""))
		case d.Duration < 0:
			errs = append(
				errs, field.Invalid(at.Child("defaultCacheDuration"), d.Duration.String(), "must be greater than or equal to 0"),
			)
		}
		errs = append(errs, validateTokens(p.TokenAttributes, at.Child("tokenAttributes"))...)
	}
	return errs
}

func validateTokens(a *configv1.ServiceAccountTokenAttributes, at *field.Path) (errs field.ErrorList) {
	if a == nil {
		return nil
	}
	if a.ServiceAccountTokenAudience == "" {
		errs = append(errs, field.Required(at.Child("serviceAccountTokenAudience"), ""))
	}
	required := at.Child("requiredServiceAccountAnnotationKeys")
	switch {
	case a.RequireServiceAccount == nil:
		errs = append(errs, field.Required(at.Child("requireServiceAccount"), ""))
	case !*a.RequireServiceAccount && len(a.RequiredServiceAccountAnnotationKeys) > 0:
		errs = append(errs, field.Forbidden(
			required, "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is set",
		))
	}
	cacheTypes := []configv1.ServiceAccountTokenCacheType{
		configv1.ServiceAccountServiceAccountTokenCacheType, configv1.TokenServiceAccountTokenCacheType,
	}
	switch {
	case a.CacheType == "":
		errs = append(errs, field.Required(at.Child("cacheType"), ""))
	case !slices.Contains(cacheTypes, a.CacheType):
		errs = append(errs, field.NotSupported(at.Child("cacheType"), a.CacheType, cacheTypes))
	}
	errs = append(errs, validateKeys(a.RequiredServiceAccountAnnotationKeys, required)...)
	errs = append(
		errs, validateKeys(a.OptionalServiceAccountAnnotationKeys, at.Child("optionalServiceAccountAnnotationKeys"))...,
	)
	both := sets.New(a.RequiredServiceAccountAnnotationKeys...).Intersection(
		sets.New(a.OptionalServiceAccountAnnotationKeys...),
	)
	if both.Len() > 0 {
		errs = append(errs, field.Invalid(at, sets.List(both), "annotation keys cannot be both required and optional"))
	}
	return errs
}

// validateKeys refuses what is no key of an annotation.
func validateKeys(keys []string, at *field.Path) (errs field.ErrorList) {
	seen := sets.New[string]()
	for i, key := range keys {
		for _, problem := range validation.IsQualifiedName(strings.ToLower(key)) {
			errs = append(errs, field.Invalid(at.Index(i), key, problem))
		}
		if seen.Has(key) {
			errs = append(errs, field.Duplicate(at.Index(i), key))
		}
		seen.Insert(key)
	}
	return errs
}

var errCacheKeyType = errors.New("its cacheKeyType is none of Image, Registry and Global")
