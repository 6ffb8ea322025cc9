package engine

import (
	"context"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// serve gives a module the functions of WASI that it imports. The engine's library compiles a way into each function of the host at
// every start, which for all of them takes longer than everything else that it does for a module that is compiled already. So they
// are taken from one that its interpreter has, which compiles nothing.
func serve(ctx context.Context, runtime wazero.Runtime, module wazero.CompiledModule) error {
	imported := module.ImportedFunctions()
	if len(imported) == 0 {
		return nil
	}
	source := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	all, err := wasi_snapshot_preview1.NewBuilder(source).Compile(ctx)
	if err != nil {
		return err
	}
	functions := all.ExportedFunctions()
	builder := runtime.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	for _, f := range imported {
		from, name, _ := f.Import()
		of, ok := functions[name]
		if !ok || !slices.Equal(f.ParamTypes(), of.ParamTypes()) || !slices.Equal(f.ResultTypes(), of.ResultTypes()) {
			return &notImported{from, name}
		}
		builder.NewFunctionBuilder().WithGoModuleFunction(of.GoFunction().(api.GoModuleFunction), of.ParamTypes(), of.ResultTypes()).Export(name)
	}
	_, err = builder.Instantiate(ctx)
	return err
}
