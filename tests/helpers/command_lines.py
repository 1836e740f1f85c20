"""Command lines, right and wrong ones, of every command."""


def lines(text):
    return text.strip().split("\n")


ANSWERED = lines("""
params gpt2
params gpt2 --json
params tiny.yaml --depth 2 --json
params tiny.yaml --depth=2 --json
params --json -- tiny.yaml
params -- tiny.yaml
params ./tiny.yaml --json
params llama --json
params llama/config.json --json
params GPT-2 --json
params gpt2 --dtype BF16 --json
params gpt2 --dtype q4_k_m --json
params gpt2 --dtype fp8 --dtype int8 --json
params gpt2 --format json
params gpt2 --format csv
params gpt2 --format md
params gpt2 --format plain
params gpt2 --format=json --json
params tiny.yaml --set d_ff=64 --json
params tiny.yaml --set d_ff=64 --set n_layers=3 --json
params tiny.yaml --set groups.0.layer.ffn.d_ff=64 --json
params tiny.yaml --set=ffn.activation=gelu --json
params tiny.yaml --set 'norm={kind: rmsnorm, eps: 1e-5}' --json
params gpt2 -o -
params gpt2 --output - --json
params gpt2 -o- --json
params gpt2 --output=/dev/stdout --json
flops gpt2 --json
flops tiny.yaml -b8 --json
flops tiny.yaml -b 8 -s 32 --json
flops tiny.yaml -b8 -s32 --json
flops tiny.yaml --batch-size=8 --seq-len=32 --json
flops tiny.yaml --batch-size 1_000 --json
flops tiny.yaml --seq-len 1e3 --json
flops gpt2 -s 1k --json
flops gpt2 -s 1K --json
flops gpt2 -s 1Ki --json
flops tiny.yaml -s 2 -s 4 -s 8 --json
flops tiny.yaml --macs --json
flops tiny.yaml --macs --macs --json
flops tiny.yaml --phase decode --past 30 --json
flops tiny.yaml --phase train --json
flops llama --tp 2 --json
flops tiny.yaml --mask dense --json
flops tiny.yaml --logits last --json
kvcache gpt2 --json
kvcache tiny.yaml -c 30 --json
kvcache llama-3.1-8b -c8k --json
kvcache llama-3.1-8b -c 8K --json
kvcache llama-3.1-8b --memory 80GiB --json
kvcache llama-3.1-8b --memory '80 GB' --json
kvcache llama-3.1-8b --memory 80G --json
kvcache llama-3.1-8b --device h100-sxm --utilization 0.9 --json
kvcache llama-3.1-8b --device h100-sxm --utilization .5 --json
kvcache llama-3.1-8b --device 'H100 SXM' --json
kvcache gpt2 --kv-dtype fp8 --json
memory tiny.yaml --json
memory tiny.yaml --phase forward -s 7 --json
memory tiny.yaml --phase decode -s 30 --json
memory tiny.yaml --phase serve --device l4 --json
memory tiny.yaml --optimizer sgd --recompute layer --json
memory tiny.yaml --grad-accum 4 --json
predict tiny.yaml --device h100-sxm --json
predict tiny.yaml --device 2xh100-sxm --tp 2 --json
predict llama-3.1-8b --device l4 -s 1000 --json
predict gpt2 --device h100-sxm --price-per-hour 2.5 --json
predict gpt2 --device h100-sxm --price-per-hour 1e0 --json
predict gpt2 --device h100-sxm --phase train --compile --json
choose gpt2 --devices 4090 --json
choose gpt2 --devices 4090 --phase train --json
fit gpt2 h100-sxm --json
fit gpt2 --device h100-sxm --json
fit llama-3.1-8b 'rtx 4090' --dtype Q4_K_M --json
fit gpt2 l4 --min-speed 20 --json
compare gpt2 gpt2-medium --json
compare tiny.yaml tiny.yaml --set 2:d_ff=64 --json
compare tiny.yaml tiny.yaml --set d_ff=64 --json
check gpt2
check gpt2 --json
check broken.yaml
check broken.yaml --json
check broken.yaml --format concise
check broken.yaml --format github
check broken.yaml --format sarif
check broken.yaml --suggest
check broken.yaml --statistics
check broken.yaml --statistics --format csv
check broken.yaml --exit-zero --json
check broken.yaml --severity error --json
check broken.yaml --select FFN001 --json
check broken.yaml --ignore FFN001 --ignore VOC001 --json
check gpt2 tiny.yaml broken.yaml --json
check llama --strict-files --json
check llama --skip-files --json
check gpt2 nowhere.yaml --json
check tiny.yaml --tp 8 --json
explain tiny.yaml --json
explain tiny.yaml flops --json
explain tiny.yaml kvcache --format latex
show tiny.yaml --json
show tiny.yaml --format yaml
show llama --format yaml
show tiny.yaml -s 4 --format csv
draw tiny.yaml
draw tiny.yaml -o -
draw tiny.yaml tiny.yaml -o - --set 2:d_ff=64
list --json
list --where 'params<100M' --json
list --where 'params<1B' --where attention=mla --json
list --sort params:desc --where 'params in 7B..9B' --json
survey tiny.yaml --no-presets --json
survey tiny.yaml tiny.yaml --no-presets --json
devices --json
devices h100-sxm --json
devices --where 'memory_bytes>=80e9' --json
engines --json
engines vllm --json
trainers --json
trainers peft --json
families --json
rules --json
rule FFN001
rule FFN001 --json
schema --of yaml
sweep tiny.yaml --vary d_model=32,64 --json
sweep tiny.yaml --vary d_model=32,64 --where 'params<1e6' --minimize flops --json
scale tiny.yaml --params 2M -s 7 --json
export tiny.yaml --to yaml
export gpt2 --json
""")
"""Command lines that are answered, some of them with exit code 1 and some with an error beside."""

REFUSED = lines("""
paarams gpt2
vram gpt2
x
''
--
-- gpt2
-x
--no-such-option
--no-such-option params gpt2
params
params gpt2 gpt2
params gpt2 tiny.yaml llama
params nowhere
params gtp2
params nowhere.yaml
params ''
params empty
params broken.json
params foreign.json
params list.yaml
params ünïcode.yaml
params "$(touch x)"
params -- -x
params gpt2 -- --json
params gpt2 --jsn
params gpt2 --js
params gpt2 --json=1
params gpt2 --json=
params gpt2 --no-json
params gpt2 --dtype
params gpt2 --dtype fp7
params gpt2 --dtype ''
params gpt2 --dtype=
params gpt2 --format
params gpt2 --format xml
params gpt2 --format JSON
params gpt2 --format ''
params gpt2 --format csv --json
params gpt2 --depth -1
params gpt2 --depth=-1
params gpt2 --depth 1.5
params gpt2 --depth two
params gpt2 --set
params gpt2 --set ''
params gpt2 --set d_ff
params gpt2 --set =3
params gpt2 --set d_ff=
params gpt2 --set nothing=3
params gpt2 --set d_ff=0 --set n_layers=x
params gpt2 --set 'd_ff={'
params gpt2 --gpu h100
params gpt2 --ctx-size 4
params gpt2 -z
params gpt2 -1
params gpt2 -zb8
params gpt2 ---json
params gpt2 --=3
flops gpt2 --batch 8
flops gpt2 -b
flops gpt2 -b=8
flops gpt2 -b 0
flops gpt2 -b -1
flops gpt2 -b8 -s
flops gpt2 -b NaN
flops gpt2 -b inf
flops gpt2 -b 1e400
flops gpt2 -b 1__000
flops gpt2 -b ''
flops gpt2 -b 'ä'
flops gpt2 -b '\x1b[31m'
flops gpt2 -b 8 -s 1.5
flops gpt2 -s 8kk
flops gpt2 -s 80GiB
flops gpt2 -s0 -b0
flops gpt2 -b0 -s0
flops -b0
flops gpt2 --phase warp
flops gpt2 --phase Train
flops gpt2 --phase=
flops gpt2 --past -3
flops gpt2 --inputs ids=int64
flops gpt2 --input ids=int64[1,2]
flops gpt2 --tp 5
flops gpt2 --seq_len 8
flops gpt2 --SEQ-LEN 8
kvcache gpt2 --memory 80x
kvcache gpt2 --memory 80QB
kvcache gpt2 --memory -3GB
kvcache gpt2 --memory 80GiB --device l4
kvcache gpt2 --device nothing
kvcache gpt2 --utilization NaN
kvcache gpt2 --utilization 0
kvcache gpt2 --utilization 2
kvcache gpt2 --utilization x
kvcache gpt2 --kv-dtype q9
memory gpt2 --optimizer adagrad
memory gpt2 --plot x.foo
memory gpt2 --engine vlm
predict gpt2
predict llama-3.1-8b --device l4 -z 1000
predict gpt2 --device h100-sxm --price-per-hour x
predict gpt2 --device h100-sxm --price-per-hour -1
predict gpt2 --device h100-sxm --calibrate nowhere.json
choose gpt2 --devices nothing
fit gpt2 h100-sxm --device l4
fit gpt2 h100-sxm --sort largest
fit gpt2 h100-sxm l4
compare
compare gpt2
compare gpt2 gpt2 --set 3:d_ff=64
compare gpt2 nowhere
check
check nowhere.yaml
check gpt2 --format full --json
check gpt2 --suggest --json
check gpt2 --statistics --format concise
check gpt2 --strict-files=1
check gpt2 --no-strict-files
check gpt2 --severity info
check gpt2 --select XYZ1
explain tiny.yaml memory
explain
show tiny.yaml --format tex
show tiny.yaml --phase decode
draw
draw gpt2 --csv
draw tiny.yaml tiny.yaml tiny.yaml tiny.yaml tiny.yaml
list gpt2
list --where 'params>'
list --where size>3
list --sort nothing
survey --no-presets
devices nothing
engines nothing
trainers nothing
bench localhost:8000 --device rtx-4090
families gpt2
rule
rule FFN
rule FFN001 --format json
schema --of json
sweep tiny.yaml
sweep tiny.yaml --vary nothing=1,2
scale tiny.yaml
scale tiny.yaml --params 2M --compute 1e18
export gpt2 --to keras
export gpt2 --model-type lama
scale tiny.yaml --hours x --device l4
""")
"""Command lines that are errors and print nothing else."""

LEFT_OUT = lines("""
profile gpt2
profile -- python train.py
verify gpt2
mcp --folder .
summary pkg.module:function
plot x.json -o x.svg
report gpt2 -o x.html
params gpt2 -o x.json
draw gpt2 -o x.svg
memory gpt2 --plot x.svg
scale gpt2 --params 1B --write-yaml x.yaml
export gpt2 -o x
sweep gpt2 --vary d_ff=64 --write-yaml x.folder
params -h
params gpt2 --help
--help
--version
-h params
--show-completion
""")
"""What the program answers, and is an error here that says what to ask instead."""
