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
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kubelet/config/v1"
	credentialproviderv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/yaml"

	"github.com/burstlet/burstlet/syncloop/images"
)

const configKind = "CredentialProviderConfig"

// Read reads a CredentialProviderConfig, or of a directory all its .json, .yaml and .yml
// files, whose plugins are in binDir. It refuses what a kubelet refuses, and names what
// plugins of an older version or tokens for them would need.
func Read(path, binDir string) (*Plugins, error) {
	files, err := configFiles(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of credential providers: %w", err)
	}
	var all []configv1.CredentialProvider
	for _, file := range files {
		providers, err := decode(file)
		if err != nil {
			return nil, fmt.Errorf("read the configuration of credential providers %s: %w", file, err)
		}
		all = append(all, providers...)
	}
	if errs := validate(all); len(errs) > 0 {
		return nil, fmt.Errorf("read the configuration of credential providers %s: %w", path, errs.ToAggregate())
	}
	p := &Plugins{}
	for _, provider := range all {
		bin, err := exec.LookPath(filepath.Join(binDir, provider.Name))
		if err != nil {
			return nil, fmt.Errorf("find the plugin of credential provider %s: %w", provider.Name, err)
		}
		p.plugins = append(p.plugins, newPlugin(bin, provider))
	}
	return p, nil
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
			errs = append(errs, field.Invalid(at.Child("name"), p.Name, "must be the name of a file in the directory of plugins, without '/' and spaces"))
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
			errs = append(errs, field.Invalid(at.Child("defaultCacheDuration"), d.Duration.String(), "must be greater than or equal to 0"))
		}
		if p.TokenAttributes != nil {
			errs = append(errs, field.Forbidden(at.Child("tokenAttributes"),
				"service account tokens for plugins are not supported: leave it out, and give the plugin an identity of its own"))
		}
	}
	return errs
}

var errCacheKeyType = errors.New("its cacheKeyType is none of Image, Registry and Global")
