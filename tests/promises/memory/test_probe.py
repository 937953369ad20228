import pytest
from tests.promises.memory.test_seeds import trace, ACTS
@pytest.mark.parametrize("seed", range(1,17))
def test_probe(tmp_path, seed):
    told = trace(tmp_path/"x", seed)
    open("/tmp/seeds.log","a").write(f"{seed} {len(told)} missing {ACTS-{l.split()[0] for l in told if ':' not in l}}\n")
