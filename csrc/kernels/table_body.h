// The table of an instruction set, from the bodies before it. Included into a namespace of its own.

Kernels make_table() {
  Kernels table{};
  table.isa = Vec::kIsa;
  table.panel_width = kPanel;
  table.max_rows = Vec::kMaxRows;
  table.matmul[static_cast<int>(Format::kFloat32)] = &matmul<DirectKernel<Float32Weights>>;
  table.matmul[static_cast<int>(Format::kBfloat16)] = &matmul<DirectKernel<Bfloat16Weights>>;
  table.matmul[static_cast<int>(Format::kFloat16)] = &matmul<DirectKernel<Float16Weights>>;
  table.matmul[static_cast<int>(Format::kQ8)] = &matmul<BlockKernel<Q8Block>>;
  table.matmul[static_cast<int>(Format::kQ4)] = &matmul<BlockKernel<Q4Block>>;
  table.round[static_cast<int>(Format::kQ8)] = &round_to_blocks;
  table.round[static_cast<int>(Format::kQ4)] = &round_to_blocks;
  table.attend_few[0] = &attend_few<Float32Page>;
  table.attend_few[1] = &attend_few<Bfloat16Page>;
  table.attend_few[2] = &attend_few<Float16Page>;
  table.attend_many[0] = &attend_many<UnpackedTile<Float32Page>>;
  table.attend_many[1] = &attend_many<UnpackedTile<Bfloat16Page>>;
  table.attend_many[2] = &attend_many<UnpackedTile<Float16Page>>;
  table.rms_norm = &rms_norm;
  table.rotate = &rotate;
  table.store[0] = &store_row<Float32Page>;
  table.store[1] = &store_row<Bfloat16Page>;
  table.store[2] = &store_row<Float16Page>;
  return table;
}
