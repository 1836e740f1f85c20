def test_a():
    import torch, fvcore.nn, transformers
    from torch.utils.flop_counter import FlopCounterMode
    from fvcore.nn import FlopCountAnalysis
    m = transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=64,intermediate_size=64,num_hidden_layers=1,num_attention_heads=4,vocab_size=99,attn_implementation="eager"))
    m(torch.zeros(1,4,dtype=torch.long))
def test_b():
    import torch
    from fvcore.nn import FlopCountAnalysis
    FlopCountAnalysis(torch.nn.Sequential(torch.nn.Linear(3,4), torch.nn.GELU()), torch.zeros(2,3)).total()
def test_c():
    import torch
    m=torch.compile(torch.nn.Linear(3,4), backend="aot_eager", fullgraph=True); m(torch.zeros(2,3)).sum().backward()
def test_d():
    import torch
    from torch.profiler import profile
    with profile() as p: torch.zeros(3)+1
    p.events()
